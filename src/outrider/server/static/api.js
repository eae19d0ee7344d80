// The server: a key where one is needed, JSON, and streams of server-sent events.

let key = "";

export function useKey(given) {
  key = given;
}

function headers(more = {}) {
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

// An error of the server: its sentence, and its status.
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function refusal(response) {
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Whatever stands between us and the server may answer with something else.
  }
  return new Refused(message, response.status);
}

export async function get(path, signal) {
  const response = await fetch(path, { headers: headers(), signal });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// The events of a streamed chat, one by one. Raises Refused, also for an error in the middle.
export async function* chat(body, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refused("the connection ended before the answer did", 0);
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ")) continue;
      if (part === "data: [DONE]") return;
      const event = JSON.parse(part.slice(6));
      if (event.error) throw new Refused(event.error.message, 0);
      yield event;
    }
  }
}
