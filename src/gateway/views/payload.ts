import type { Payload } from "../../core/model/job.ts";
import type { Blobs } from "../../ports/blobs.ts";

/** The value of a payload; null when there is none, or when it is kept elsewhere and has expired there. */
export async function payloadValue(blobs: Blobs, payload: Payload | null): Promise<unknown> {
  if (payload === null) return null;
  if (payload.kind === "inline") return payload.value;
  const bytes = await blobs.get(payload.ptr);
  if (bytes === null) return null;
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text);
  } catch {
    // Workers of others write their results themselves: what is no JSON is shown as the text it is.
    return text;
  }
}
