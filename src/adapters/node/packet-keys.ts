/**
 * The keys that packets are signed and verified with, from the files that the settings name. What is wrong with them at the
 * start keeps the process from starting; what is wrong later is said, and what was known before stays known.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import type { SenderSettings } from "../../core/settings.ts";
import type { Log } from "../../ports/log.ts";
import { TrustError } from "../grpc/trust.ts";
import { readPemFile } from "./pem-file.ts";

export interface OwnKey {
  readonly key: KeyObject;
  /** Its public half, and the public keys beside it in the file: of those of us that have another one just now. */
  readonly ours: readonly KeyObject[];
}

export function readOwnKey(path: string): OwnKey {
  return ownKeyIn(
    readPemFile(OWN, path).toString("latin1"),
    (why) => new TrustError(OWN, `\`${OWN}\`: \`${path}\`: ${why}`),
  );
}

/** From the text of a PEM file. What is wrong with it is told without anything of it. */
export function ownKeyIn(text: string, problem: (why: string) => Error): OwnKey {
  if (/ENCRYPTED/.test(text)) throw problem("it has a passphrase; give one without, that only this process may read");
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch {
    throw problem(`there is no private key in it that can be read; make one with \`${MAKE}\``);
  }
  if (!isP256(key)) throw problem(`its key is not of the curve P-256; make one with \`${MAKE}\``);
  return { key, ours: [createPublicKey(key), ...publicKeysIn(text, problem)] };
}

/** One at least. */
export function senderKeysIn(text: string, problem: (why: string) => Error): readonly KeyObject[] {
  if (/PRIVATE KEY-----/.test(text)) {
    throw problem(
      "it is a private key, which only the sender should have; give what `openssl pkey -pubout` makes of it",
    );
  }
  const keys = publicKeysIn(text, problem);
  if (keys.length > 0) return keys;
  throw problem("there is no public key in it; give a PEM file that begins with `-----BEGIN PUBLIC KEY-----`");
}

/**
 * The keys of the listed senders, read anew when the settings have changed. A file that cannot be read then leaves the
 * sender with the key that it had; one that is listed no more is known no more.
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
    (why) => new TrustError(setting, `\`${setting}\`: \`${path}\`: ${why}`),
  );
}

function readAgain(id: string, path: string, log: Log): readonly KeyObject[] | null {
  try {
    return readSenderKeys(id, path);
  } catch (error) {
    log.write("error", "cap_sender_key_not_read", { sender: id, why: (error as Error).message });
    return null;
  }
}

function publicKeysIn(text: string, problem: (why: string) => Error): readonly KeyObject[] {
  const blocks = text.match(PUBLIC_KEYS) ?? [];
  if (blocks.length > KEYS_MAX) throw problem(`there are more than ${KEYS_MAX} public keys in it; remove the old ones`);
  return blocks.map((block) => {
    let key: KeyObject;
    try {
      key = createPublicKey(block);
    } catch {
      throw problem("a public key in it cannot be read; give it as `openssl pkey -pubout` makes it");
    }
    if (!isP256(key)) throw problem("a public key in it is not of the curve P-256; only that one is used");
    return key;
  });
}

const isP256 = ({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean =>
  asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1";

const OWN = "cap.key";
const MAKE = "openssl ecparam -name prime256v1 -genkey -noout -out cap-key.pem";
const PUBLIC_KEYS = /-----BEGIN PUBLIC KEY-----[^-]*-----END PUBLIC KEY-----/g;
/** Each is tried for every packet that does not fit the first. */
const KEYS_MAX = 4;
