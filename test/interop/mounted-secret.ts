import { mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Files by their names in a Secret. */
export type SecretFiles = Readonly<Record<string, string>>;

/** Mounts a Secret, or replaces it, as the kubelet does: each name leads through the link `..data`. */
export async function mountSecret(folder: string, files: SecretFiles): Promise<void> {
  const generation = `..${Date.now()}`;
  await mkdir(join(folder, generation), { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, generation, name), text);
  }
  await symlink(generation, join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  for (const name of Object.keys(files)) {
    await symlink(`..data/${name}`, join(folder, name)).catch(unlessThere);
  }
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
