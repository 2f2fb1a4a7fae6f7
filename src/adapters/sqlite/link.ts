import { join } from "node:path";
import { FoldingThread } from "./checkpointer.ts";
import { CommitExecutor } from "./commit-executor.ts";
import { DATA_FILE, openDataDirectory, PRAGMAS } from "./database.ts";
import { storeOperations } from "./operations.ts";
import type { Link } from "./writer.ts";

/**
 * Opens a data directory: calls are carried out in this very thread (decision 6 has the figures), and what has gathered
 * is written into the tables by another (decision 10).
 */
export async function openHere(dir: string, unfoldedMax?: number): Promise<Link> {
  const directory = await openDataDirectory(dir);
  const folder = new FoldingThread(join(dir, DATA_FILE), PRAGMAS);
  try {
    const executor = new CommitExecutor(
      directory.db,
      directory.journal,
      storeOperations(directory.db, unfoldedMax),
      folder,
    );
    executor.recover(directory.left);
    let closed: Promise<void> | null = null;
    const close = async () => {
      try {
        await executor.close();
      } finally {
        await folder.close();
        await directory.close();
      }
    };
    return {
      run: (batch) => executor.run(batch),
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
