import { openDataDirectory } from "./sqlite.ts";
import { dutiesOf } from "./sqlite-duties.ts";
import { Scribe } from "./sqlite-scribe.ts";
import type { Link } from "./sqlite-writer.ts";

/**
 * Opens a data directory in this very thread. A thread of its own was tried and cost more than it saved: decision 6 has the
 * figures. What travels to the scribe is plain data all the same, so that it could.
 */
export async function openHere(dir: string): Promise<Link> {
  const directory = await openDataDirectory(dir);
  try {
    const scribe = new Scribe(directory.db, directory.journal, dutiesOf(directory.db));
    scribe.recover(directory.left);
    let closed: Promise<void> | null = null;
    const close = async () => {
      try {
        scribe.fold();
      } finally {
        await directory.close();
      }
    };
    return {
      run: (batch) => scribe.run(batch),
      close: () => {
        closed ??= close();
        return closed;
      },
    };
  } catch (error) {
    await directory.close();
    throw error;
  }
}
