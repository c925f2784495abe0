/*
 * specials.h - clients that need more than one deviation of one session.
 */
#ifndef HOSTILE_SPECIALS_H
#define HOSTILE_SPECIALS_H

#include "client.h"
#include "talk.h"

/* Each is a client_run of another kind. What else it checks goes to talk->problem. */

/* Writes to the address of another client's slot, with its rkey; that client goes on. */
void special_neighbour(struct talk *talk, const struct client_job *job);

/* Likewise, of a session that has ended. */
void special_ended(struct talk *talk, const struct client_job *job);

/* Writes into a range that was placed, once it was stored. */
void special_revoked(struct talk *talk, const struct client_job *job);

/* Writes into its slots after the DONE. */
void special_late(struct talk *talk, const struct client_job *job);

/* Sends more PINGs than anybody needs, and hears the PONGs. */
void special_pings(struct talk *talk, const struct client_job *job);

/* Sends the PROOF of a session before. */
void special_replay(struct talk *talk, const struct client_job *job);

/* Many connect requests at once, of which nothing more is heard. */
void special_flood(struct talk *talk, const struct client_job *job);

/* Comes with the token of an exchange whose session is over. */
void special_stale_token(struct talk *talk, const struct client_job *job);

/* Comes after another one has come with its token, who does not hear the READY. */
void special_stolen_token(struct talk *talk, const struct client_job *job);

/* Many connections by TCP that say nothing, and among them an honest client. */
void special_strangers(struct talk *talk, const struct client_job *job);

#endif
