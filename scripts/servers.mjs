// The real servers that some tests run against: where they are, and how they get here.
//
// 1. Only the binaries are used. Tests start their own servers on their own ports and folders; the system's services
//    are neither used nor touched, and installing the packages here does not start them.
// 2. Nothing is skipped in silence: what is missing is returned with what to do about it.

import { accessSync, chmodSync, constants, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { run, say } from "./run.mjs";

/** Name of the tool → names of the binaries that will do, and the Debian package. */
export const SERVERS = {
  nats: { binaries: ["nats-server"], debian: "nats-server", brew: "nats-server" },
  redis: { binaries: ["redis-server", "valkey-server"], debian: "redis-server", brew: "redis" },
};

/** Path of the server's binary, or null. Also looks where a distribution puts daemons, which is often not on PATH. */
export function findServer(name, path = process.env.PATH ?? "") {
  const folders = [...path.split(delimiter), "/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];
  for (const folder of folders) {
    for (const binary of SERVERS[name].binaries) {
      const file = join(folder, binary);
      if (folder !== "" && isExecutable(file)) return file;
    }
  }
  return null;
}

/** Finds the servers, installs those missing where it may, and returns what is still missing with what to do. */
export async function ensureServers() {
  let missing = missingServers();
  if (missing.length > 0 && mayInstall()) {
    await installDebian(missing);
    missing = missingServers();
  }
  return { missing, advice: missing.length > 0 ? adviceFor(missing) : "" };
}

function missingServers() {
  return Object.keys(SERVERS).filter((name) => findServer(name) === null);
}

function mayInstall() {
  return process.getuid?.() === 0 && existsSync("/etc/debian_version") && isExecutable("/usr/bin/apt-get");
}

async function installDebian(missing) {
  const packages = missing.map((name) => SERVERS[name].debian);
  say(`installing ${packages.join(" and ")} for the tests …`);
  const release = keepServicesDown();
  try {
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    await run("apt-get", ["update", "-q"], { show: false, env });
    const install = ["install", "-q", "-y", "--no-install-recommends", ...packages];
    const { code, output } = await run("apt-get", install, { show: false, env });
    if (code !== 0) say(`apt-get failed:\n${output.trim()}`);
  } finally {
    release();
  }
}

/** Debian asks this file before a package's service is started; 101 means "not allowed". An existing one is left alone. */
function keepServicesDown() {
  const policy = "/usr/sbin/policy-rc.d";
  if (existsSync(policy)) return () => {};
  const content = "#!/bin/sh\n# written by cordum's tests while they install servers\nexit 101\n";
  writeFileSync(policy, content);
  chmodSync(policy, 0o755);
  return () => {
    if (existsSync(policy) && readFileSync(policy, "utf8") === content) rmSync(policy);
  };
}

function adviceFor(missing) {
  const list = (key) => missing.map((name) => SERVERS[name][key]).join(" ");
  return [
    `not found: ${missing.map((name) => SERVERS[name].binaries.join(" or ")).join(", ")}. Install with one of:`,
    `  Debian, Ubuntu:  sudo apt-get install -y --no-install-recommends ${list("debian")}`,
    `  macOS:           brew install ${list("brew")}`,
    "  else:            https://nats.io/download and https://redis.io/downloads, then put the binaries on PATH",
  ].join("\n");
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
