import { cp, mkdir, readFile, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { blocksUnder, textsIn } from "../../pages/page-blocks.ts";
import { type Ended, run } from "../../testkit/programs/child-process.ts";
import { startDevelopment } from "../../testkit/programs/npm-start.ts";
import { until } from "../../testkit/time/until.ts";

/** The files of a clone that `npm start` and the verbs read. */
const parts = ["dev", "proto", "src", "package.json", "tsconfig.json", "wrangler.toml"];

const page = "docs/tutorials/first-certificate.md";

/**
 * Types what the tutorial has a stranger type, in a copy of the project without state: `npm start`, and the
 * commands of each section in a shell of their own. The reader's token is what `npm start` prints.
 */
export async function playFreshClone(folder: string): Promise<void> {
  await mkdir(folder);
  for (const part of parts) await cp(part, join(folder, part), { recursive: true });
  await symlink(resolve("node_modules"), join(folder, "node_modules"));
  const { lines, interrupt } = await startDevelopment(folder);
  const type = (script: string): Promise<Ended> => {
    const environment = { RAMPART_LOG_TOKEN: tokenIn(lines) };
    return run("sh", ["-euc", script], { folder, environment, timeoutSeconds: 120 });
  };
  const typeSection = async (heading: string): Promise<Ended> => type(await scriptOf(heading));
  try {
    requireWell(await typeSection("2. Ask for a certificate yourself"));
    requireWell(await typeSection("3. Look at it"), /ns\/shop\/sa\/cart/);
    const [search = ""] = /.*export LOG[\s\S]*?--since 1h/.exec(await scriptOf(findIt)) ?? [];
    await until("the log to publish the certificate", async () =>
      /shop\/sa\/cart/.test((await type(search)).stdout),
    );
    requireWell(await typeSection(findIt), /shop\/sa\/cart[\s\S]*has it at index 2, issued at /);
    const { exitCode, stdout, stderr } = await typeSection("5. Take it back");
    if (exitCode !== 0 || !/They are on the CRLs by then[\s\S]*keyCompromise/.test(stdout)) {
      throw new Error(`revocation ended with ${exitCode}: ${stdout}${stderr}`);
    }
    // OpenSSL's own words are on the page.
    const said = required(/^error 23.*$/m.exec(await readFile(page, "utf8"))?.[0], "error 23");
    if (!stderr.includes(said)) throw new Error(`OpenSSL takes a revoked certificate: ${stderr}`);
    requireWell(await typeSection("6. See who signs"), /signing/);
    requireWell(await typeSection("7. The same by hand"), /leaf\.pem: OK/);
  } finally {
    await interrupt();
  }
}

const findIt = "4. Find it in the log";

/** The commands of a section, as one script. */
const scriptOf = async (heading: string): Promise<string> =>
  textsIn(await blocksUnder(page, heading), "sh").join("");

function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`${page} has no ${what}`);
  return value;
}

/** The token of a reader of the log, which `npm start` prints for another shell. */
function tokenIn(lines: readonly string[]): string {
  const tokens = lines.flatMap((line) => /^export RAMPART_LOG_TOKEN=(.*)/.exec(line)?.[1] ?? []);
  return required(tokens[0], `token in:\n${lines.join("\n")}`);
}

function requireWell({ exitCode, stdout, stderr }: Ended, expected = /(?:)/): void {
  if (exitCode === 0 && expected.test(stdout)) return;
  throw new Error(`ended with ${exitCode}, without ${expected}: ${stdout}${stderr}`);
}
