import { bareTopic } from "./pattern.ts";

/** A request's topic as patterns see it; cut into tokens only when somebody asks. */
export class Topic {
  readonly bare: string;
  #tokens: readonly string[] | null = null;

  constructor(topic: string) {
    this.bare = bareTopic(topic);
  }

  get tokens(): readonly string[] {
    this.#tokens ??= this.bare.split(".");
    return this.#tokens;
  }
}
