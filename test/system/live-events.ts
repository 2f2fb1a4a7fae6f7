/** A client of the event stream. Events of one chunk were committed at about the same time. */
import { tokenHeader } from "../cli/run.ts";
import type { Answer, Api } from "./api.ts";

export interface LiveEvent {
  readonly kind: "job" | "run";
  readonly data: Answer["body"];
}

export class LiveEvents {
  readonly #stop = new AbortController();
  /** Resolves when the stream ends: stopped, dropped, or the server process exited. */
  closed: Promise<void> = Promise.resolve();

  /** Resolves when the stream is open. `onBurst` is called with the events of each chunk until the stream ends. */
  static async open(api: Api, onBurst: (events: readonly LiveEvent[]) => void): Promise<LiveEvents> {
    const events = new LiveEvents();
    const response = await fetch(`${api.url}/api/v1/stream`, {
      signal: events.#stop.signal,
      headers: tokenHeader(api.url),
    });
    if (!response.ok || response.body === null) throw new Error(`the stream request failed with ${response.status}`);
    // A killed process ends the stream with an error.
    events.closed = events.#read(response.body, onBurst).catch(() => undefined);
    return events;
  }

  stop(): void {
    this.#stop.abort();
  }

  async #read(body: ReadableStream<Uint8Array>, onBurst: (events: readonly LiveEvent[]) => void): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      const whole = text.split("\n\n");
      text = whole.pop() ?? "";
      const events = whole.flatMap(eventOf);
      if (events.length > 0 && !this.#stop.signal.aborted) onBurst(events);
    }
  }
}

function eventOf(text: string): readonly LiveEvent[] {
  const [, kind] = /^event: (job|run)$/m.exec(text) ?? [];
  const [, data = ""] = /^data: (.*)$/m.exec(text) ?? [];
  return kind === "job" || kind === "run" ? [{ kind, data: JSON.parse(data) }] : [];
}
