#include "config.h"

#include "input.h"

#include <string.h>

uint8_t input_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

unsigned input_number(struct input *input)
{
    uint8_t byte = input_byte(input);
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 10;
    return byte;
}

unsigned input_below(struct input *input, unsigned count)
{
    return input_number(input) % count;
}

size_t input_bytes(struct input *input, void *bytes, size_t len)
{
    if (len > input->left)
        len = input->left;
    memcpy(bytes, input->at, len);
    input->at += len;
    input->left -= len;
    return len;
}
