/**
 * Certificates and keys, from the files that the settings name. All that can be known of them at the start is said at the
 * start, with the setting, the file, and what to do.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { SafetyTrustSettings } from "../../config/build.ts";
import { readPemFile } from "../node/pem-file.ts";
import { type CallerTrust, type KernelTrust, type KeyPair, TrustError } from "./trust.ts";

export function readKernelTrust({ token, ca, ...paths }: SafetyTrustSettings): KernelTrust {
  const pair = readPair(paths);
  if (pair !== null) return { token, tls: { pair, ca: ca === null ? null : readAuthorities(ca) } };
  if (ca === null) return { token, tls: null };
  const message =
    "a kernel cannot ask for certificates (`safety.tls.ca`) and have none itself; give both files of its own";
  throw new TrustError("safety.tls.cert", `${message}, \`safety.tls.cert\` and \`safety.tls.key\``);
}

export function readCallerTrust({ token, ca, ...paths }: SafetyTrustSettings): CallerTrust {
  const pair = readPair(paths);
  if (ca !== null) return { token, tls: { ca: readAuthorities(ca), pair } };
  if (pair === null) return { token, tls: null };
  const message = "`safety.tls.cert` is shown only to a kernel whose own certificate can be checked";
  throw new TrustError("safety.tls.ca", `${message}; say who signs that one with \`safety.tls.ca\``);
}

function readPair({ cert, key }: Pick<SafetyTrustSettings, "cert" | "key">): KeyPair | null {
  if (cert === null || key === null) return null;
  const pair = { chain: readPemFile(CERT, cert), key: readPemFile(KEY, key) };
  const [own] = certificatesIn(CERT, cert, pair.chain);
  const privateKey = keyIn(key, pair.key);
  if (own === undefined || !own.checkPrivateKey(privateKey)) {
    throw new TrustError(
      KEY,
      `\`${key}\` (\`${KEY}\`) is not the key of the first certificate in \`${cert}\` (\`${CERT}\`); give the two that ` +
        "were made together, the process's own certificate before those that it is signed by",
    );
  }
  refuseOutOfTime(cert, own);
  return pair;
}

function readAuthorities(path: string): Buffer {
  const bytes = readPemFile(CA, path);
  certificatesIn(CA, path, bytes);
  return bytes;
}

/** One at least. Of several in a bundle each must be one. */
function certificatesIn(setting: string, path: string, bytes: Buffer): readonly X509Certificate[] {
  const blocks = bytes.toString("latin1").match(CERTIFICATES) ?? [];
  if (blocks.length === 0) {
    const found = /PRIVATE KEY-----/.test(bytes.toString("latin1")) ? "a key, but no certificate" : "no certificate";
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: there is ${found} in it; give ${EXPECTED}`);
  }
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: a certificate in it cannot be read; give ${EXPECTED}`);
  }
}

/** What is wrong with it is told without anything of it. */
function keyIn(path: string, bytes: Buffer): KeyObject {
  const text = bytes.toString("latin1");
  const problem = (why: string) => new TrustError(KEY, `\`${KEY}\`: \`${path}\`: ${why}`);
  if (/ENCRYPTED/.test(text)) throw problem("it has a passphrase; give one without, that only this process may read");
  try {
    return createPrivateKey(bytes);
  } catch {
    throw problem(
      "there is no key in it that can be read; give a PEM file that begins with `-----BEGIN PRIVATE KEY-----`",
    );
  }
}

/** A kernel with such a certificate would be refused by everybody, and a caller by the kernel. */
function refuseOutOfTime(path: string, { validFrom, validTo }: X509Certificate): void {
  const nowMs = Date.now();
  const problem = (why: string) => new TrustError(CERT, `\`${CERT}\`: \`${path}\`: ${why}`);
  if (nowMs > Date.parse(validTo)) throw problem(`the certificate ended on ${validTo}; renew it`);
  if (nowMs < Date.parse(validFrom))
    throw problem(`the certificate begins on ${validFrom}; look at this machine's clock`);
}

const CERT = "safety.tls.cert";
const KEY = "safety.tls.key";
const CA = "safety.tls.ca";
const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const EXPECTED = "a PEM file, which begins with `-----BEGIN CERTIFICATE-----`";
