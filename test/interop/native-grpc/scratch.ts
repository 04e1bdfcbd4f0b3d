import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** A folder for the files that programs read. */
export type Scratch = Awaited<ReturnType<typeof createScratch>>;

export async function createScratch() {
  const folder = await lastingFolder();
  let count = 0;
  return {
    folder,
    /** Writes a file under a new name. @returns Its path. */
    file: async (stem: string, content: string): Promise<string> => {
      const path = join(folder, `${stem}-${count++}`);
      await writeFile(path, content, { mode: 0o600 });
      return path;
    },
  };
}
