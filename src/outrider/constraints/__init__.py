"""Constraints: which tokens keep an answer inside a JSON schema, a regular expression or a grammar."""
