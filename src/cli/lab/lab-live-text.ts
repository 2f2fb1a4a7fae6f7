/** What the command of a live run and its processes say to each other. Plain JSON, over the channel between them. */
import type { LiveRowRequest } from "../../lab/live.ts";
import type { Space } from "./lab-live-space.ts";

/** The word that starts a process. No command: it is nothing that people type. */
export const MEMBER = "lab-live-member";

export type ToMember =
  | {
      readonly kind: "join";
      readonly experiment: string;
      readonly index: number;
      readonly space: Space;
      readonly order: LiveRowRequest;
    }
  | { readonly kind: "ask"; readonly id: number; readonly question: unknown }
  | { readonly kind: "leave" };

export type FromMember =
  | { readonly kind: "joined" }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown }
  /** `id` null: it could not join. */
  | { readonly kind: "failed"; readonly id: number | null; readonly error: string }
  | { readonly kind: "news"; readonly news: unknown };
