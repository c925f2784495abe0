# completions.zsh - what starts an interactive zsh (.zshrc) that completes $LINE, writes what it offers to the
# file $OFFERED, a line each, and ends. Functions for completion are in $FUNCTIONS, too.

fpath=("$FUNCTIONS" $fpath)
autoload -Uz compinit
compinit -u -d $ZDOTDIR/dump
zstyle ':completion:*' group-name ''

# What is added for the user to choose from; calls that only ask for matches go through.
compadd() {
  local -a offers
  if [[ " ${(j: :)argv[1,(i)-(|-)]} " == *' -'[a-zA-Z]#[OAD]' '* ]]; then
    builtin compadd "$@"
    return
  fi
  builtin compadd -A offers "$@"
  (( $#offers )) && print -rl -- ${(Q)offers} >> $OFFERED
  builtin compadd "$@"
}

zle-line-init() {
  BUFFER=$LINE CURSOR=$#LINE
  zle list-choices
  BUFFER=exit
  zle accept-line
}
zle -N zle-line-init
