import { Badge, type Tone } from "../../kit/badge.tsx";

const TONES: Readonly<Record<string, Tone>> = { good: "good", expired: "warn", revoked: "quiet" };

export function KeyState({ state }: { readonly state: string }) {
  return <Badge tone={TONES[state] ?? "quiet"}>{state === "good" ? "valid" : state}</Badge>;
}
