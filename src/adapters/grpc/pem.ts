/** Reads certificates and keys from the files named in the settings, and validates them at the start. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { SafetyTrustSettings } from "../../config/build.ts";
import { readPemFile, TrustError } from "../node/pem-file.ts";
import type { CallerTrust, KernelTrust, KeyPair } from "./trust.ts";

export function readKernelTrust({ token, ca, ...paths }: SafetyTrustSettings): KernelTrust {
  const pair = readPair(paths);
  if (pair !== null) return { token, tls: { pair, ca: ca === null ? null : readAuthorities(ca) } };
  if (ca === null) return { token, tls: null };
  const message = "`safety.tls.ca` requires the kernel's own certificate and key";
  throw new TrustError("safety.tls.cert", `${message}: set \`safety.tls.cert\` and \`safety.tls.key\``);
}

export function readCallerTrust({ token, ca, ...paths }: SafetyTrustSettings): CallerTrust {
  const pair = readPair(paths);
  if (ca !== null) return { token, tls: { ca: readAuthorities(ca), pair } };
  if (pair === null) return { token, tls: null };
  const message = "`safety.tls.cert` is sent only to a kernel whose certificate can be verified";
  throw new TrustError("safety.tls.ca", `${message}: set its CA in \`safety.tls.ca\``);
}

function readPair({ cert, key }: Pick<SafetyTrustSettings, "cert" | "key">): KeyPair | null {
  if (cert === null || key === null) return null;
  const pair = { chain: readPemFile(CERT, cert), key: readPemFile(KEY, key) };
  const [own] = certificatesIn(CERT, cert, pair.chain);
  const privateKey = keyIn(key, pair.key);
  if (own === undefined || !own.checkPrivateKey(privateKey)) {
    throw new TrustError(
      KEY,
      `\`${key}\` (\`${KEY}\`) does not match the first certificate in \`${cert}\` (\`${CERT}\`): use a matching pair, ` +
        "with the own certificate before the intermediate certificates",
    );
  }
  checkValidity(cert, own);
  return pair;
}

function readAuthorities(path: string): Buffer {
  const bytes = readPemFile(CA, path);
  certificatesIn(CA, path, bytes);
  return bytes;
}

/** Returns at least one certificate. All certificates of a bundle must be valid. */
function certificatesIn(setting: string, path: string, bytes: Buffer): readonly X509Certificate[] {
  const blocks = bytes.toString("latin1").match(CERTIFICATES) ?? [];
  if (blocks.length === 0) {
    const found = /PRIVATE KEY-----/.test(bytes.toString("latin1"))
      ? "found a key, not a certificate"
      : "no certificate";
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: ${found}: use ${EXPECTED}`);
  }
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    throw new TrustError(setting, `\`${setting}\`: \`${path}\`: invalid certificate: use ${EXPECTED}`);
  }
}

/** Errors contain nothing of the key. */
function keyIn(path: string, bytes: Buffer): KeyObject {
  const text = bytes.toString("latin1");
  const problem = (detail: string) => new TrustError(KEY, `\`${KEY}\`: \`${path}\`: ${detail}`);
  if (/ENCRYPTED/.test(text)) throw problem("the key has a passphrase: use one without, readable by this process only");
  try {
    return createPrivateKey(bytes);
  } catch {
    throw problem("no valid private key found: use a PEM file that begins with `-----BEGIN PRIVATE KEY-----`");
  }
}

/** The peer would reject such a certificate. */
function checkValidity(path: string, { validFrom, validTo }: X509Certificate): void {
  const nowMs = Date.now();
  const problem = (detail: string) => new TrustError(CERT, `\`${CERT}\`: \`${path}\`: ${detail}`);
  if (nowMs > Date.parse(validTo)) throw problem(`the certificate expired on ${validTo}: renew it`);
  if (nowMs < Date.parse(validFrom))
    throw problem(`the certificate is not valid before ${validFrom}: check the clock of this machine`);
}

const CERT = "safety.tls.cert";
const KEY = "safety.tls.key";
const CA = "safety.tls.ca";
const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const EXPECTED = "a PEM file that begins with `-----BEGIN CERTIFICATE-----`";
