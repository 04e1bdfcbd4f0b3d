import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { listenOnSocket } from "../../../src/agent/sockets/unix-socket.ts";
import { ConfigurationError } from "../../../src/foundation/configuration-error.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

function server(): Server {
  const created = createServer((socket) => socket.end());
  onTestFinished(() => void created.close());
  return created;
}

test("creates its folder, and sets the mode of the socket", async () => {
  const folder = `${await temporaryFolder()}/a/b`;
  await listenOnSocket(server(), `${folder}/socket`, 0o600);
  expect((await stat(`${folder}/socket`)).mode & 0o777).toBe(0o600);
  expect((await stat(folder)).mode & 0o777).toBe(0o750);
});

test("lets only its owner and its group connect in a folder that every user may enter", async () => {
  const folder = await temporaryFolder();
  await chmod(folder, 0o755);
  expect(await listenOnSocket(server(), `${folder}/open`, 0o666)).toBe(0o660);
  expect((await stat(`${folder}/open`)).mode & 0o777).toBe(0o660);
});

test.each([0o700, 0o750])(
  "lets everybody connect who may enter a folder of mode %o",
  async (mode) => {
    const folder = await temporaryFolder();
    await chmod(folder, mode);
    expect(await listenOnSocket(server(), `${folder}/socket`, 0o666)).toBe(0o666);
  },
);

test("counts the folders above, and those behind a link", async () => {
  const [closed, open] = [await temporaryFolder(), await temporaryFolder()];
  await mkdir(`${closed}/inner`);
  await chmod(`${closed}/inner`, 0o755);
  expect(await listenOnSocket(server(), `${closed}/inner/socket`, 0o666)).toBe(0o666);
  await chmod(open, 0o755);
  await symlink(open, `${closed}/link`);
  expect(await listenOnSocket(server(), `${closed}/link/socket`, 0o666)).toBe(0o660);
});

test("replaces the socket of a dead process", async () => {
  const path = `${await temporaryFolder()}/socket`;
  const listen = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", listen]);
  expect((await stat(path)).isSocket()).toBe(true);
  await listenOnSocket(server(), path, 0o600);
  await once(connect(path), "connect");
});

test("replaces a file that is no socket", async () => {
  const path = `${await temporaryFolder()}/socket`;
  await writeFile(path, "");
  await listenOnSocket(server(), path, 0o600);
  await once(connect(path), "connect");
});

test("does not disturb a live process", async () => {
  const path = `${await temporaryFolder()}/socket`;
  await listenOnSocket(server(), path, 0o600);
  await expect(listenOnSocket(server(), path, 0o600)).rejects.toThrow(ConfigurationError);
  await once(connect(path), "connect");
});
