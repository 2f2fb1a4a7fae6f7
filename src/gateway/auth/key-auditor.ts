import { EVERY_ORG, KEY_USES } from "../../core/model/api-key.ts";
import { recordAudit } from "../../engine/audit/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { put } from "../../ports/store.ts";
import type { Principal } from "../route.ts";

/**
 * Audits and records the use of each key once a minute, and audits up to `REFUSALS_MAX` refusals a minute; the excess is
 * recorded as a count.
 */
export class KeyAuditor {
  readonly #engine: Engine;
  #minute = -1;
  readonly #used = new Set<string>();
  #refused = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  used({ id, org, role }: Principal): void {
    this.#startMinute();
    if (this.#used.has(id) || this.#used.size >= USED_MAX) return;
    this.#used.add(id);
    recordAudit(this.#engine, { org, kind: "key", who: id, what: "key used", facts: { role } });
    this.#engine.tasks.track(this.#recordUse(id, org));
  }

  refused(code: string, principal?: Principal): void {
    this.#startMinute();
    this.#refused += 1;
    if (this.#refused > REFUSALS_MAX) return;
    const { id, org } = principal ?? { id: "unknown", org: EVERY_ORG };
    recordAudit(this.#engine, { org, kind: "key", who: id, what: "request refused", facts: { code } });
  }

  /** Without a version check: of several processes the last one counts. A failed write is not repeated within the minute. */
  async #recordUse(id: string, org: string): Promise<void> {
    const { clock, log } = this.#engine.world;
    const use = { ...put(KEY_USES, id, null, { atMs: clock.now() }), expect: null };
    try {
      await this.#engine.commit({ org, puts: [use] });
    } catch (error) {
      log.write("warn", "key_use_write_failed", { key: id, error: String(error) });
    }
  }

  #startMinute(): void {
    const minute = Math.floor(this.#engine.world.clock.now() / 60_000);
    if (minute === this.#minute) return;
    this.#minute = minute;
    this.#used.clear();
    const more = this.#refused - REFUSALS_MAX;
    this.#refused = 0;
    if (more <= 0) return;
    const entry = { org: EVERY_ORG, kind: "key", who: "unknown", what: "requests refused", facts: { more } } as const;
    recordAudit(this.#engine, entry);
  }
}

const USED_MAX = 1_000;
const REFUSALS_MAX = 60;
