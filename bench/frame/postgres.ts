// A temporary PostgreSQL server for DBOS. Without an installation, that peer is reported as not run.

import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import { chown, mkdir, readFile, realpath } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { type RunningServer, type ServerKind, startServer } from "../../test/servers/server.ts";

/** Both programs of one installation; null without one. */
export function findPostgres(): { readonly initdb: string; readonly postgres: string } | null {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).toSorted((a, b) => Number(b) - Number(a)) : [];
  const folders = [...(process.env.PATH ?? "").split(delimiter), ...versions.map((name) => join(DEBIAN, name, "bin"))];
  for (const folder of folders) {
    const found = { initdb: join(folder, "initdb"), postgres: join(folder, "postgres") };
    if (isExecutable(found.initdb) && isExecutable(found.postgres)) return found;
  }
  return null;
}

/** Default settings: an acknowledged transaction is on disk, and the number of connections is limited. */
export async function startPostgres(): Promise<RunningServer> {
  const found = findPostgres();
  if (found === null) throw new Error("PostgreSQL not found: install it, or run the suite without DBOS");
  const owner = process.getuid?.() === 0 ? unprivilegedUser() : null;
  const binaries = await realpath(found.postgres);
  let folder = "";
  const kind: ServerKind = {
    name: "postgres",
    scheme: "postgresql",
    find: () => binaries,
    ...(owner && { owner }),
    async args(port, dir) {
      folder = join(dir, "data");
      await initialise(join(dirname(binaries), "initdb"), folder, owner);
      return ["-D", folder, "-p", String(port), "-h", "127.0.0.1", "-k", folder];
    },
    async isReady({ pid }) {
      // Line 1 of postmaster.pid is the process id, line 8 the status.
      const lines = (await readFile(join(folder, "postmaster.pid"), "utf8")).split("\n");
      return lines[0] === String(pid) && lines[7]?.trim() === "ready";
    },
  };
  return startServer(kind);
}

/** The default database. */
export const databaseUrl = ({ port }: RunningServer): string =>
  `postgresql://${USER}:${USER}@127.0.0.1:${port}/postgres`;

async function initialise(initdb: string, folder: string, owner: Owner | null): Promise<void> {
  if (owner) await chown(dirname(folder), owner.uid, owner.gid);
  // A retry with another port uses the same folder.
  if (existsSync(folder)) return;
  await mkdir(folder, { mode: 0o700 });
  if (owner) await chown(folder, owner.uid, owner.gid);
  await promisify(execFile)(initdb, ["-D", folder, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"], owner ?? {});
}

type Owner = NonNullable<ServerKind["owner"]>;

/** PostgreSQL does not run as root. */
function unprivilegedUser(): Owner {
  const lines = readFileSync("/etc/passwd", "utf8").split("\n");
  const entries = lines.map((line) => line.split(":"));
  const entry =
    entries.find(([user]) => user === "postgres") ?? entries.find(([, , uid]) => Number(uid) === OVERFLOW_UID);
  if (!entry)
    throw new Error(`PostgreSQL does not run as root; add a user \`postgres\` or a user with id ${OVERFLOW_UID}`);
  return { uid: Number(entry[2]), gid: Number(entry[3]) };
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The unprivileged user of most systems. */
const OVERFLOW_UID = 65_534;
const DEBIAN = "/usr/lib/postgresql";
const USER = "bench";
