"""The server: the OpenAI API, a page and metrics over anything that is a Live. Needs the extra `serve`."""
