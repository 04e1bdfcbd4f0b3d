import { writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A folder for the files that programs read. */
export interface Scratch {
  readonly folder: string;
  /** Writes a file under a new name. @returns Its path. */
  readonly file: (stem: string, content: string) => Promise<string>;
}

export function scratchIn(folder: string): Scratch {
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
