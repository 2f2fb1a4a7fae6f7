import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * A directory on a file system of its own, which can be full or lose power. After a power cut it contains what was synced:
 * the image of the block device is copied without the pages that the kernel has not written yet. Without the right to mount,
 * it is a plain directory that has neither fault.
 */
export class Disk {
  readonly #folder = mkdtempSync(join(tmpdir(), "cordum-faults-"));
  /** Why there is no file system of its own; null if there is one. */
  readonly problem: string | null;
  readonly dir: string;

  constructor() {
    this.dir = join(this.#folder, "disk");
    mkdirSync(this.dir);
    this.problem = this.#format();
  }

  /** Fills the disk up to the last block. */
  fill(): void {
    const { bavail, bsize } = statfsSync(this.dir);
    for (let bytes = bavail * bsize; bytes >= 512; bytes = Math.floor(bytes / 2)) this.#allocate(bytes);
  }

  free(): void {
    rmSync(join(this.dir, BALLOON), { recursive: true, force: true });
  }

  /** No process may use the disk. */
  cutPower(): void {
    const cut = `${this.#image}.cut`;
    copyFileSync(this.#image, cut);
    run("umount", this.dir);
    rmSync(this.#image);
    run("mv", cut, this.#image);
    this.#mount();
  }

  remove(): void {
    if (this.problem === null) run("umount", this.dir);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #image(): string {
    return join(this.#folder, "image");
  }

  #format(): string | null {
    try {
      writeFileSync(this.#image, "");
      truncateSync(this.#image, SIZE_BYTES);
      run("mkfs.ext4", "-q", "-m", "0", this.#image);
      this.#mount();
      return null;
    } catch (error) {
      return `cannot mount a file system: ${(error as Error).message.split("\n").at(-1)}`;
    }
  }

  /** The kernel writes unsynced data late, so that a power cut loses it. */
  #mount(): void {
    run("mount", "-o", "loop,commit=60", this.#image, this.dir);
  }

  #allocate(bytes: number): void {
    const folder = join(this.dir, BALLOON);
    mkdirSync(folder, { recursive: true });
    try {
      writeFileSync(join(folder, String(bytes)), Buffer.alloc(bytes));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" });
}

const SIZE_BYTES = 128 * 1024 * 1024;
const BALLOON = "balloon";
