# Short names for dev.py's verbs; the prompt of `make run` is P="..."
P ?= Why is the sky blue?
export P

.PHONY: run test check format bench sanitize

run:
	python3 dev.py outrider run "$$P"

test check format bench sanitize:
	python3 dev.py $@
