import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { doctorCommand } from "../../../../src/cli/verbs/doctor/doctor.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");

let code: MemoryTerminal["exitCode"];

async function examined(config: string, flag: string) {
  const terminal = new MemoryTerminal({ clock: () => now });
  const told = await terminal.run(doctorCommand, [flag, "--json", "-c", config]);
  code = terminal.exitCode;
  const { findings } = JSON.parse(told) as {
    findings: { name: string; what: string; source: string }[];
  };
  return findings;
}

async function foundIn(toml: string): Promise<string[]> {
  const folder = await temporaryFolder();
  const config = join(folder, "wrangler.toml");
  await writeFile(config, toml);
  // What would be deployed has nothing of it.
  await writeFile(join(folder, ".dev.vars"), 'ISSUERS="nonsense"\n');
  const findings = await examined(config, "--deploy");
  for (const { source } of findings) expect(source).toBe("wrangler.toml");
  return findings.map(({ what }) => what);
}

const example = "ISSUERS has the example issuer https://issuer.example.com.";

test("the file that is in the repository lacks what an operator has to set", async () => {
  const found = await foundIn(await readFile("wrangler.toml", "utf8"));
  expect(found).toContain("The KV namespace AUTHORITIES has no id.");
  expect(found).toContain("No host name leads to the Worker.");
  expect(found).toContain("INCEPTION_DATE is not set.");
  expect(code).toBe(4);
});

test("the file of the repository with all that is to be set has no finding", async () => {
  const text = (await readFile("wrangler.toml", "utf8"))
    .replace(/^# (routes = .*)ca\.example\.com/m, "$1ca.mesh.test")
    .replace(
      /^# (id = )"0123456789abcdef0123456789abcdef"/m,
      '$1"00000000000000000000000000000001"',
    )
    .replace(/^# (INCEPTION_DATE = ).*/m, '$1"2026-11-21"')
    .replace(/^issuer = .*/m, 'issuer = "https://a.test"');
  expect(await foundIn(text)).toEqual([]);
  expect(code).toBeUndefined();
  // A name at workers.dev leads to it, too; another namespace is not that of the authorities.
  const atWorkersDev = text
    .replace(/^routes = .*/m, "")
    .replace("workers_dev = false", "workers_dev = true");
  expect(await foundIn(atWorkersDev)).toEqual([]);
  const other = '[[kv_namespaces]]\nbinding = "OTHER"\nid = "00000000000000000000000000000002"\n';
  expect(await foundIn(`${text.replace(/^id = .*/m, "")}\n${other}`)).toEqual([
    "The KV namespace AUTHORITIES has no id.",
  ]);
});

/** The `wrangler.toml` of a project that is complete but for what its variables lack. */
const projectWith = (variables: string, issuer: string): string => `name = "ca"
main = "worker.js"
compatibility_date = "2026-11-17"
routes = [{ pattern = "ca.mesh.test", custom_domain = true }]
[[kv_namespaces]]
binding = "AUTHORITIES"
id = "00000000000000000000000000000001"
[vars]
${variables}
[[vars.ISSUERS]]
issuer = "${issuer}"
`;

test("an example is told although .dev.vars has another value, and a complete file has no finding", async () => {
  const complete = (issuer: string) =>
    projectWith(`TRUST_DOMAIN = "mesh.test"\nINCEPTION_DATE = "2026-11-21"`, issuer);
  expect(await foundIn(complete("https://issuer.example.com"))).toEqual([example]);
  expect(await foundIn(complete("https://a.test"))).toEqual([]);
});

test("the tutorial's example is told, and a day of inception that is over, or not set, before a first deployment", async () => {
  const of = (day: string | undefined, host: string) =>
    projectWith(day === undefined ? "" : `INCEPTION_DATE = "${day}"`, `https://${host}`);
  const tutorial = "oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE";
  expect(await foundIn(of("2026-11-21", tutorial))).toEqual([
    `ISSUERS has the example issuer https://${tutorial}.`,
  ]);
  expect(await foundIn(of("2026-11-20", "a.test"))).toEqual(["INCEPTION_DATE 2026-11-20 is over."]);
  expect(await foundIn(of(undefined, "a.test"))).toEqual(["INCEPTION_DATE is not set."]);
});

test("a checkup of this machine names the values that .dev.vars has in place of the file's", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "wrangler.toml");
  await writeFile(config, `name = "ca"\n[vars]\nTRUST_DOMAIN = "Mesh"\n`);
  const foundBy = () => examined(config, "--offline");
  const sourceOf = async () =>
    (await foundBy()).find(({ name }) => name === "configuration-invalid")?.source;
  expect((await foundBy()).map(({ name }) => name)).toContain("platform-limits");
  expect(await sourceOf()).toBe("wrangler.toml");
  await writeFile(join(folder, ".dev.vars"), 'KEK=k1:secret\n# old\nISSUERS="nonsense"\n');
  expect(await sourceOf()).toBe(".dev.vars (KEK, ISSUERS), else wrangler.toml");
});

test("a configuration beside the code of a function on Lambda gets the limits of Lambda", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  await writeFile(config, 'STORE = "s3"\n');
  const saidOfLambda = async () => {
    const findings = await examined(config, "--offline");
    return findings.filter(({ source }) => source === "AWS Lambda").map(({ what }) => what);
  };
  expect(await saidOfLambda()).toEqual([]);
  const code = join(folder, "index.mjs");
  await writeFile(code, 'export { handler } from "./other.mjs";\n');
  expect(await saidOfLambda()).toEqual([]);
  await writeFile(code, await readFile("deploy/lambda/function/index.mjs", "utf8"));
  expect(await saidOfLambda()).toContainEqual(expect.stringContaining("/crl.pem may not fit"));
});
