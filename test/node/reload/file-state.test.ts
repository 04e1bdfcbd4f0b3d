import { execFileSync } from "node:child_process";
import { mkdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fileState, pipeState } from "../../../src/node/reload/file-state.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

test("differs when a file is written, replaced, cut off or removed, and not otherwise", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "rampart.toml");
  await writeFile(path, "A = 1\n");
  const states = [await fileState(path)];
  expect(await fileState(path)).toBe(states[0]);
  await writeFile(`${path}.new`, "A = 1\n");
  await rename(`${path}.new`, path);
  states.push(await fileState(path));
  await truncate(path, 3);
  states.push(await fileState(path));
  await rm(path);
  states.push(await fileState(path));
  expect(new Set(states).size).toBe(states.length);
  expect(states.at(-1)).toBe("ENOENT");
});

test("follows the links of a mounted ConfigMap, whose folder is swapped as a whole", async () => {
  const folder = await temporaryFolder();
  for (const version of ["..1", "..2"]) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, "rampart.toml"), `A = "${version}"\n`);
  }
  await symlink("..1", join(folder, "..data"));
  await symlink("..data/rampart.toml", join(folder, "rampart.toml"));
  const before = await fileState(join(folder, "rampart.toml"));
  await symlink("..2", join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  expect(await fileState(join(folder, "rampart.toml"))).not.toBe(before);
});

test("knows a pipe, a link that leads nowhere and a path through a file", async () => {
  const folder = await temporaryFolder();
  execFileSync("mkfifo", [join(folder, "pipe")]);
  expect(await fileState(join(folder, "pipe"))).toBe(pipeState);
  await symlink("nowhere", join(folder, "link"));
  expect(await fileState(join(folder, "link"))).toBe("ENOENT");
  await writeFile(join(folder, "file"), "");
  expect(await fileState(join(folder, "file", "rampart.toml"))).toBe("ENOTDIR");
});
