import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readPemFile, TrustError } from "./pem-file.ts";

/** Signs audit checkpoints with Ed25519. */
export interface AuditSigner {
  /** Base64. */
  sign(text: string): string;
  /** PEM. */
  publicKey(): string;
}

/**
 * Reads the key file at once. Without one, an embedded control plane creates its own in the data directory when the first
 * checkpoint is signed; a cluster has no place for it and gets no signer.
 */
export function openAuditSigner(keyFile: string | null, dataDir: string | null): AuditSigner | null {
  if (keyFile !== null) return signerWith(() => readKey(keyFile), true);
  if (dataDir === null) return null;
  const own = join(dataDir, OWN_FILE);
  return signerWith(() => (existsSync(own) ? readKey(own) : createKey(own)), false);
}

/** False also for a public key of another type. */
export function isSignedBy(publicKeyPem: string, text: string, signature: string): boolean {
  try {
    const key = createPublicKey(publicKeyPem);
    return (
      key.asymmetricKeyType === "ed25519" && verify(null, Buffer.from(text), key, Buffer.from(signature, "base64"))
    );
  } catch {
    return false;
  }
}

const OWN_FILE = "audit-key.pem";
const SETTING = "audit.key";
const MAKE = "openssl genpkey -algorithm ed25519 -out audit-key.pem";

function signerWith(open: () => KeyObject, isNeededAtStart: boolean): AuditSigner {
  let key = isNeededAtStart ? open() : null;
  const known = (): KeyObject => {
    key ??= open();
    return key;
  };
  return {
    sign: (text) => sign(null, Buffer.from(text), known()).toString("base64"),
    publicKey: () => createPublicKey(known()).export({ type: "spki", format: "pem" }).toString(),
  };
}

/** Errors contain nothing of the file. */
function readKey(path: string): KeyObject {
  const text = readPemFile(SETTING, path).toString("latin1");
  const problem = (detail: string) => new TrustError(SETTING, `\`${SETTING}\`: \`${path}\`: ${detail}`);
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch {
    throw problem(`no private key without a passphrase found: create one with \`${MAKE}\``);
  }
  if (key.asymmetricKeyType === "ed25519") return key;
  throw problem(`the key is not an Ed25519 key: create one with \`${MAKE}\``);
}

function createKey(path: string): KeyObject {
  const { privateKey } = generateKeyPairSync("ed25519");
  writeFileSync(path, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600, flag: "wx" });
  return privateKey;
}
