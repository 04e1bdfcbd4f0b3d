import { mkdir, readFile, symlink } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { run } from "../../testkit/programs/child-process.ts";
import type { Mesh } from "./mesh.ts";

const root = join(import.meta.dirname, "../../..");

/**
 * Runs the commands of docs/reference/serve.md, from an empty folder to a certificate. Only the folder, the ports
 * and the waits differ.
 */
export async function storyFault(
  folder: string,
  mesh: Mesh,
  grpcurl: string,
): Promise<string | undefined> {
  await mkdir(folder);
  const ours = ["dev", "package.json", "proto", "src", "node_modules"];
  await Promise.all(ours.map((name) => symlink(join(root, name), join(folder, name))));
  const [port = 0, monitoringPort = 0] = await freePorts(2);
  const told = (await commands())
    .replaceAll("/tmp/rampart", join(folder, "store"))
    .replaceAll("http://127.0.0.1:8788", mesh.issuerTable("").issuer)
    .replaceAll("127.0.0.1:15012", `127.0.0.1:${port}`)
    .replaceAll("127.0.0.1:15014", `127.0.0.1:${monitoringPort}`)
    .replace("STORE_DIRECTORY", `${listens(port, monitoringPort)}STORE_DIRECTORY`)
    .replace(/(serve &.*\n)/, `$1${waitFor(port)}\n`);
  const script = `${told}\nstatus=$?\nkill %1\nwait\nexit $status\n`;
  const { PATH: path = "" } = process.env;
  const environment = { PATH: `${dirname(grpcurl)}${delimiter}${path}` };
  const shell = await run("bash", ["-mc", script], { folder, environment });
  const { exitCode, stdout, stderr } = shell;
  const isTold = exitCode === 0 && stdout.includes('"certChain": [');
  return isTold ? undefined : `exit code ${exitCode}: ${(stdout + stderr).slice(-600)}`;
}

async function commands(): Promise<string> {
  const page = await readFile(join(root, "docs/reference/serve.md"), "utf8");
  const [, block] =
    /## From nothing to a certificate\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(page) ?? [];
  if (block === undefined || block.trim().split("\n").length >= 10) {
    throw new Error("docs/reference/serve.md has no story of less than ten lines");
  }
  return block;
}

/** Escapes a text for the quotes of a printf. */
const listens = (port: number, monitoringPort: number): string =>
  `LISTEN = "127.0.0.1:${port}"\\nMONITORING_LISTEN = "127.0.0.1:${monitoringPort}"\\n`;

const waitFor = (port: number): string =>
  `for i in $(seq 150); do curl -sko /dev/null https://127.0.0.1:${port}/healthz && break; sleep 0.2; done`;
