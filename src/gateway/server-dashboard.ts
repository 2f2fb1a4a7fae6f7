/**
 * Serves the built dashboard: its page at `/` and at the paths of its views, so that links to views work, and its assets.
 *
 * 1. The page contains no data and needs no key.
 * 2. The names of assets contain a hash of their content: browsers keep them for ever. The page is validated each time.
 * 3. The content security policy admits the assets of this gateway and requests to it, and nothing inline.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Problem } from "./problem.ts";

/** The paths of the views; those below them exist too. */
export const VIEWS = [
  ...["jobs", "runs", "approvals", "waves", "rollouts", "policy", "dead-letters", "lab", "audit"],
  ...["workers", "keys", "settings", "schedules", "simulator"],
] as const;

/** `folder`: where the build wrote to; null if this process serves no dashboard. */
export function serveDashboard(app: FastifyInstance, folder: string | null): void {
  if (folder === null) return;
  const files = new DashboardFiles(folder);
  const page = async (request: FastifyRequest, reply: FastifyReply) => {
    return files.send("index.html", { request, reply, headers: PAGE_HEADERS });
  };
  for (const path of ["/", ...VIEWS.flatMap((view) => [`/${view}`, `/${view}/*`])]) {
    app.route({ method: ["GET", "HEAD"], url: path, handler: page });
  }
  app.route<{ Params: { file: string } }>({
    method: ["GET", "HEAD"],
    url: "/assets/:file",
    handler: async (request, reply) => {
      return files.send(`assets/${request.params.file}`, { request, reply, headers: ASSET_HEADERS });
    },
  });
}

interface Variant {
  readonly bytes: Buffer;
  readonly etag: string;
}

interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Of a file that was found: an error is not cached. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Files of the build, read once. Only names that the folder lists can be requested. A missing file was replaced by a rebuild. */
class DashboardFiles {
  readonly #folder: string;
  readonly #read = new Map<string, Promise<Variant>>();
  #names: ReadonlySet<string> | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async send(name: string, { request, reply, headers }: Exchange): Promise<FastifyReply> {
    const accepted = String(request.headers["accept-encoding"] ?? "");
    const encoding = ENCODINGS.find((one) => accepted.includes(one.name) && this.#has(`${name}${one.suffix}`));
    const { bytes, etag } = await this.#variant(name, encoding?.suffix ?? "");
    reply
      .headers({ ...headers, etag, vary: "accept-encoding" })
      .type(TYPES[name.slice(name.lastIndexOf("."))] ?? BINARY);
    if (encoding !== undefined) reply.header("content-encoding", encoding.name);
    if (request.headers["if-none-match"] === etag) return reply.code(304).send();
    return reply.send(bytes);
  }

  async #variant(name: string, suffix: string): Promise<Variant> {
    const file = `${name}${suffix}`;
    if (!this.#has(name)) throw this.#missing(name);
    const known = this.#read.get(file);
    if (known !== undefined) return known;
    const read = this.#load(name, file);
    this.#read.set(file, read);
    return read;
  }

  async #load(name: string, file: string): Promise<Variant> {
    try {
      const bytes = await readFile(join(this.#folder, file));
      return { bytes, etag: `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"` };
    } catch (thrown) {
      this.#read.delete(file);
      if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
      const missing = this.#missing(name);
      this.#names = null;
      this.#read.clear();
      throw missing;
    }
  }

  #missing(name: string): Problem {
    const advice = this.#names?.size === 0 ? "the dashboard is not built; run `npm run build`" : "load the page again";
    return new Problem("route_not_found", `\`GET /${name.slice(0, 200)}\` does not exist; ${advice}`);
  }

  #has(name: string): boolean {
    this.#names ??= namesIn(this.#folder);
    return this.#names.has(name);
  }
}

/** With slashes: `assets/index-1a2b.js`. */
function namesIn(folder: string): ReadonlySet<string> {
  if (!existsSync(folder)) return new Set();
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Set(entries.map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join("/")));
}

const ENCODINGS = [
  { name: "br", suffix: ".br" },
  { name: "gzip", suffix: ".gz" },
] as const;

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
const BINARY = "application/octet-stream";

const ASSET_HEADERS = { "cache-control": "public, max-age=31536000, immutable" };
const PAGE_HEADERS = {
  "cache-control": "no-cache",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
};
