/** Escapes line breaks, control characters and bidirectional overrides, which change what a terminal shows. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (char) => NAMED[char] ?? escaped(char));
}

export function terminalJson(value: unknown, indent?: number): string {
  return escapeJson(JSON.stringify(value, null, indent) ?? "null");
}

/** Escapes what `JSON.stringify` leaves as it is: DEL, the C1 controls and the overrides. */
export const escapeJson = (json: string): string => json.replace(JSON_CONTROLS, escaped);

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it escapes.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
const JSON_CONTROLS = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
