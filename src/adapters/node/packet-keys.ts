/**
 * Reads the keys that sign and verify packets from the files named in the settings. An invalid file fails the start. After
 * a reload an invalid file is logged and the previous key stays in use.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import type { SenderSettings } from "../../core/settings.ts";
import type { Log } from "../../ports/log.ts";
import { readPemFile, TrustError } from "./pem-file.ts";

export interface OwnKey {
  readonly key: KeyObject;
  /** Its public key, and further public keys in the file: those of control plane processes during a key rotation. */
  readonly ours: readonly KeyObject[];
}

export function readOwnKey(path: string): OwnKey {
  return ownKeyIn(
    readPemFile(OWN, path).toString("latin1"),
    (detail) => new TrustError(OWN, `\`${OWN}\`: \`${path}\`: ${detail}`),
  );
}

/** Parses a PEM file. Errors contain nothing of its content. */
export function ownKeyIn(text: string, problem: (detail: string) => Error): OwnKey {
  if (/ENCRYPTED/.test(text)) throw problem("the key has a passphrase: use one without, readable by this process only");
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch {
    throw problem(`no valid private key found: create one with \`${MAKE}\``);
  }
  if (!isP256(key)) throw problem(`the key is not on curve P-256: create one with \`${MAKE}\``);
  return { key, ours: [createPublicKey(key), ...publicKeysIn(text, problem)] };
}

/** Returns at least one key. */
export function senderKeysIn(text: string, problem: (detail: string) => Error): readonly KeyObject[] {
  if (/PRIVATE KEY-----/.test(text)) {
    throw problem("this is a private key, which must stay with the sender: use the output of `openssl pkey -pubout`");
  }
  const keys = publicKeysIn(text, problem);
  if (keys.length > 0) return keys;
  throw problem("no public key found: use a PEM file that begins with `-----BEGIN PUBLIC KEY-----`");
}

/**
 * Keys of the configured senders, read again when the settings change. If a file is then invalid, the sender keeps its
 * previous key.
 */
export function openSenderKeys(
  listed: () => Readonly<Record<string, SenderSettings>>,
  log: Log,
): () => ReadonlyMap<string, readonly KeyObject[]> {
  let read = listed();
  let keys = new Map(Object.entries(read).map(([id, { keyFile }]) => [id, readSenderKeys(id, keyFile)]));
  return () => {
    const now = listed();
    if (now === read) return keys;
    read = now;
    const before = keys;
    keys = new Map();
    for (const [id, { keyFile }] of Object.entries(now)) {
      const known = readAgain(id, keyFile, log) ?? before.get(id);
      if (known !== undefined) keys.set(id, known);
    }
    return keys;
  };
}

function readSenderKeys(id: string, path: string): readonly KeyObject[] {
  const setting = `cap.senders.${id}.key`;
  return senderKeysIn(
    readPemFile(setting, path).toString("latin1"),
    (detail) => new TrustError(setting, `\`${setting}\`: \`${path}\`: ${detail}`),
  );
}

function readAgain(id: string, path: string, log: Log): readonly KeyObject[] | null {
  try {
    return readSenderKeys(id, path);
  } catch (error) {
    log.write("error", "cap_sender_key_read_failed", { sender: id, error: (error as Error).message });
    return null;
  }
}

function publicKeysIn(text: string, problem: (detail: string) => Error): readonly KeyObject[] {
  const blocks = text.match(PUBLIC_KEYS) ?? [];
  if (blocks.length > KEYS_MAX) throw problem(`more than ${KEYS_MAX} public keys found: remove the old ones`);
  return blocks.map((block) => {
    let key: KeyObject;
    try {
      key = createPublicKey(block);
    } catch {
      throw problem("invalid public key: use the output of `openssl pkey -pubout`");
    }
    if (!isP256(key)) throw problem("a public key is not on curve P-256: only P-256 is supported");
    return key;
  });
}

const isP256 = ({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean =>
  asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1";

const OWN = "cap.key";
const MAKE = "openssl ecparam -name prime256v1 -genkey -noout -out cap-key.pem";
const PUBLIC_KEYS = /-----BEGIN PUBLIC KEY-----[^-]*-----END PUBLIC KEY-----/g;
/** Bounds the verifications per packet. */
const KEYS_MAX = 4;
