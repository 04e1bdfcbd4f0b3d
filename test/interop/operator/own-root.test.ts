import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { blocksUnder, textsIn } from "../../pages/page-blocks.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { serveToml } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { installRampart, runLine, type Terminal } from "./incident-page.ts";

const page = "docs/how-to/own-root.md";
const issuer = "https://issuer.example.com";
const jwks_uri = "https://issuer.example.com/keys";

/** What the company has before it reads the page: a root, kept by OpenSSL. */
const companysRoot = [
  "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root.key",
  "-subj '/O=Company/CN=Root' -days 3650 -out root.pem",
  "-addext keyUsage=critical,keyCertSign,cRLSign",
].join(" ");

async function operatorsTerminal(): Promise<Terminal> {
  const folder = await temporaryFolder();
  await installRampart(folder);
  await mkdir(join(folder, "store"), { mode: 0o700 });
  // Two intervals are longer than the page's next command takes on a busy machine.
  const PROPAGATION_INTERVAL = "15s";
  const values = {
    AUTHORITY_ROOT: "offline",
    ISSUERS: [{ issuer, jwks_uri }],
    PROPAGATION_INTERVAL,
  };
  await writeFile(join(folder, "rampart.toml"), serveToml(join(folder, "store"), values));
  return { folder, environment: { KEK: randomKek() } };
}

/** Types a block of the page as it stands. */
async function type(script: string, terminal: Terminal): Promise<string> {
  const { code, stdout, stderr } = await runLine(`set -e\n${script}`, terminal);
  expect(code, stderr).toBe(0);
  return stdout;
}

test("an authority begins under a company's root, and gets its next intermediate, as the page says", async () => {
  const terminal = await operatorsTerminal();
  const scripts = textsIn(await blocksUnder(page, "Begin"), "sh");
  expect(scripts).toHaveLength(3);
  const [request = "", sign = "", install = ""] = scripts;
  await type(companysRoot, terminal);
  expect(await type(request, terminal)).toMatch(/EC-P256 .* 0 h$/m);
  await type(sign, terminal);
  // The page's last command says that nobody signs before two intervals are over.
  const installed = await runLine(`set -e\n${install}`, terminal);
  expect(installed).toMatchObject({ code: 4, stdout: expect.stringContaining("signs") });
  await eventually(async () => {
    expect((await runLine("rampart authority plan", terminal)).code).toBe(0);
  });
  const { stdout } = await runLine("rampart authority list --json", terminal);
  const [first] = JSON.parse(stdout) as { id: string }[];
  for (const script of [request, sign, install]) await type(script, terminal);
  const listed = JSON.parse((await runLine("rampart authority list --json", terminal)).stdout);
  expect(listed).toHaveLength(2);
  expect(listed).toContainEqual(expect.objectContaining({ id: first?.id }));
});

test.each([
  "Files that somebody else replaces",
  "A CA that answers by itself",
  "A Rampart as the root",
])("the configuration under %s is one", async (heading) => {
  const [toml = ""] = textsIn(await blocksUnder(page, heading), "toml");
  const written = parse(toml);
  const values = {
    TRUST_DOMAIN: clusterLocal,
    STORE_DIRECTORY: "/var/lib/rampart",
    KEK: randomKek(),
    ISSUERS: [{ issuer, jwks_uri }],
    ...(heading === "A CA that answers by itself" && {
      UPSTREAM_CREDENTIAL: "a-token-of-the-mesh",
    }),
    ...written,
  };
  expect(ServeConfiguration.parse(values)).toBeDefined();
});
