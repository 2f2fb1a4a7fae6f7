/**
 * Keeps the local kernel at the policy in force.
 *
 * 1. A published policy is loaded on the change broadcast, and within `POLL_MS` without it.
 * 2. A policy that cannot be loaded changes nothing and is logged once. At start it is an error, because the built-in
 *    policy is not what was published.
 */
import {
  IN_FORCE,
  POLICY_CHOICE,
  POLICY_RELEASES,
  POLICY_TEXTS,
  RELEASES_LIST,
  RELEASES_MAX,
} from "../../core/model/policy-release.ts";
import { compile } from "../../core/policy/compile.ts";
import { readPolicy } from "../../core/policy/document.ts";
import type { Stop } from "../../ports/bus.ts";
import type { Cancel } from "../../ports/clock.ts";
import { CHANGED } from "../../protocol/subjects.ts";
import { changeIn } from "../change-broadcast.ts";
import type { Needs } from "../engine.ts";

export const POLICY_CHANGED = "policy";
export const POLL_MS = 1_000;

/** Loads the policy in force; true if policy or reason changed. */
export async function adoptPolicy(engine: Needs<"world" | "kernel">): Promise<boolean> {
  const { store, log } = engine.world;
  const held = engine.kernel.inForce;
  const choice = await store.load(POLICY_CHOICE, IN_FORCE);
  if (choice === null || (choice.version === held.revision && choice.value.releaseId === held.releaseId)) return false;
  const { releaseId, snapshot: wanted, how } = choice.value;
  const [release, text] = await Promise.all([
    store.load(POLICY_RELEASES, releaseId),
    store.load(POLICY_TEXTS, releaseId),
  ]);
  if (release === null || text === null) throw new Error(`policy in force not found in the store: \`${wanted}\``);
  const { name, by } = release.value;
  const read = readPolicy({ name, text: text.value.text });
  if (read.kind === "bad") {
    const why = `the policy in force, \`${wanted}\`, was published by another version and cannot be compiled by this one`;
    throw new Error(`${why}: ${read.problems.join("; ")}`);
  }
  const next = { snapshot: compile(read.document), source: name, releaseId, revision: choice.version };
  // Read after the newer policy was in force: the store was restored.
  const hasGoneBack = choice.version <= held.revision;
  if (hasGoneBack) log.write("warn", "policy_store_restored", { from: held.revision, to: choice.version });
  if (!(hasGoneBack ? engine.kernel.replace(next) : engine.kernel.update(next))) return false;
  log.write("info", "policy_adopted", { snapshot: next.snapshot.hash, source: name, by, how });
  return true;
}

export async function watchPolicy(engine: Needs<"world" | "kernel">): Promise<Stop> {
  const { bus, store } = engine.world;
  await adoptPolicy(engine);
  // Jobs queued before the start of this process may have been decided by any of them.
  const earlier = await store.list(POLICY_RELEASES, { index: RELEASES_LIST, limit: RELEASES_MAX });
  engine.kernel.noteReplaced(earlier.items.map(({ value }) => value.snapshot).reverse());
  const follower = new Follower(engine);
  const stopListening = await bus.subscribe(CHANGED, (packet) => {
    if (changeIn(engine, packet) === POLICY_CHANGED) follower.look();
  });
  follower.start();
  return async () => {
    await Promise.all([stopListening(), follower.stop()]);
  };
}

class Follower {
  readonly #engine: Needs<"world" | "kernel">;
  #next: Cancel = () => {};
  #looking: Promise<void> | null = null;
  #again = false;
  #isStopped = false;
  /** The last logged failure, so that a lasting one is logged once. */
  #failure = "";

  constructor(engine: Needs<"world" | "kernel">) {
    this.#engine = engine;
  }

  start(): void {
    this.#next = this.#engine.world.clock.after(POLL_MS, () => this.look());
  }

  /** Runs now, and once more if already running, because that read may be too early. */
  look(): void {
    if (this.#isStopped) return;
    if (this.#looking !== null) {
      this.#again = true;
      return;
    }
    this.#next();
    this.#looking = this.#adopt().finally(() => {
      this.#looking = null;
      if (this.#isStopped) return;
      this.start();
      if (this.#again) this.look();
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#next();
    await this.#looking;
  }

  async #adopt(): Promise<void> {
    this.#again = false;
    try {
      await adoptPolicy(this.#engine);
      this.#failure = "";
    } catch (error) {
      const why = String(error);
      if (why === this.#failure) return;
      this.#failure = why;
      const still = this.#engine.kernel.inForce.snapshot.hash;
      this.#engine.world.log.write("error", "policy_load_failed", { why, still });
    }
  }
}
