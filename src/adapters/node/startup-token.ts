/**
 * The start-up token: the key of a control plane without API keys. It is a file in the data directory that only its owner
 * can read, so that neither other users of the machine nor clients of a proxy on it are administrators.
 */
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keyText, newSecret, readKeyText, STARTUP_ID } from "../../core/model/api-key.ts";
import { isLoopback } from "../../core/model/loopback.ts";

export const tokenFile = (dataDir: string): string => join(dataDir, "token");

/** The token in the directory; created by the first start. */
export function ensureToken(dataDir: string, random: () => number): string {
  const known = readToken(dataDir);
  if (known !== null) {
    chmodSync(tokenFile(dataDir), 0o600);
    return known;
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const token = keyText(STARTUP_ID, newSecret(random));
  const draft = `${tokenFile(dataDir)}.${process.pid}`;
  writeFileSync(draft, `${token}\n`, { mode: 0o600 });
  try {
    // Complete at once, and never a second one: processes of a cluster may share the directory.
    linkSync(draft, tokenFile(dataDir));
    return token;
  } catch (error) {
    const other = readToken(dataDir);
    if (other !== null) return other;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** The token for a gateway on this machine, from `CORDUM_DATA_DIR` or `.cordum`; null if there is none. */
export function tokenFor(url: string, env: Readonly<Record<string, string | undefined>>): string | null {
  if (!URL.canParse(url) || !isLoopback(new URL(url).hostname)) return null;
  return readToken(env.CORDUM_DATA_DIR || ".cordum");
}

function readToken(dataDir: string): string | null {
  try {
    const text = readFileSync(tokenFile(dataDir), "utf8").trim();
    return readKeyText(text)?.id === STARTUP_ID ? text : null;
  } catch {
    return null;
  }
}
