// Finds and installs the servers that some tests require, and the browser of the dashboard's tests.
//
// Tests use the binaries only and start their own servers on their own ports and directories. System services are neither
// used nor started. Missing servers are reported with installation instructions.

import { accessSync, chmodSync, constants, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { log, run } from "./run.mjs";

/** Accepted binaries and package names by server. */
export const SERVERS = {
  nats: { binaries: ["nats-server"], debian: "nats-server", brew: "nats-server" },
  redis: { binaries: ["redis-server", "valkey-server"], debian: "redis-server", brew: "redis" },
  chromium: { binaries: ["chromium", "chromium-browser", "google-chrome"], debian: "chromium", brew: "chromium" },
};

/** Path of the server binary, or null. Also searches daemon directories that are often not in PATH. */
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

/** Installs missing servers if possible, and returns the rest with instructions. */
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
  log(`installing ${packages.join(", ")} for the tests …`);
  const release = keepServicesDown();
  try {
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    await run("apt-get", ["update", "-q"], { show: false, env });
    // One by one: a distribution without one of them still gets the others.
    for (const name of packages) {
      const install = ["install", "-q", "-y", "--no-install-recommends", name];
      const { code, output } = await run("apt-get", install, { show: false, env });
      if (code !== 0) log(`apt-get failed for ${name}:\n${output.trim()}`);
    }
  } finally {
    release();
  }
}

/** Keeps apt from starting services: exit code 101 of policy-rc.d forbids it. An existing file is not changed. */
function keepServicesDown() {
  const policy = "/usr/sbin/policy-rc.d";
  if (existsSync(policy)) return () => {};
  const content = "#!/bin/sh\n# temporary file of the cordum test setup\nexit 101\n";
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
    "  else:            https://nats.io/download, https://redis.io/downloads and a Chromium, with the binaries in PATH",
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
