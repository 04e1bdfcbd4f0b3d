import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** A folder for the files that programs read. */
export interface Scratch {
  readonly folder: string;
  /** Writes a file under a new name. @returns Its path. */
  readonly file: (stem: string, content: string) => Promise<string>;
}

export async function createScratch(): Promise<Scratch> {
  const folder = await lastingFolder();
  let count = 0;
  return {
    folder,
    file: async (stem, content) => {
      const path = join(folder, `${stem}-${count++}`);
      await writeFile(path, content, { mode: 0o600 });
      return path;
    },
  };
}
