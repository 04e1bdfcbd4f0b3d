import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommanderError } from "commander";
import { beforeEach, expect, test } from "vitest";
import { rampart } from "../../src/cli/rampart.ts";
import { exitCodes } from "../../src/cli/terminal/command-line.ts";
import { OperatorError } from "../../src/foundation/errors.ts";
import { randomKek } from "../testkit/configuration.ts";
import { MemoryTerminal } from "../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

const now = new Date("2026-11-22T12:00:00Z");
let folder: string;
let terminal: MemoryTerminal;

/** The configurations of a folder, each with one fault, and one without. */
async function writeConfigurations(): Promise<void> {
  const toml = (store: string, trustDomain = '"cluster.local"'): string =>
    `STORE_DIRECTORY = ${JSON.stringify(join(folder, store))}
TRUST_DOMAIN = ${trustDomain}
[[ISSUERS]]
issuer = "https://issuer.test"
`;
  const texts = {
    "good.toml": toml("store"),
    "bad.toml": "= =",
    "type.toml": toml("store", "7"),
    "on-file.toml": toml("file"),
    "open.toml": toml("open"),
    file: "",
  };
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
  for (const name of ["dir", "dir.toml"]) await mkdir(join(folder, name));
  await mkdir(join(folder, "open"));
  await chmod(join(folder, "open"), 0o777);
}

beforeEach(async () => {
  folder = await temporaryFolder();
  await writeConfigurations();
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  terminal.setVariable("RAMPART_PASSPHRASE", "correct horse battery staple");
});

/** Runs a verb in this process. `@name` in its words is a file of the folder. */
async function failureOf(words: string): Promise<unknown> {
  const values = words.split(" ").map((word) => word.replace("@", `${folder}/`));
  const program = await rampart(values[0] ?? "", terminal);
  return program.parseAsync(values, { from: "user" }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

const verbs = [
  "authority list",
  "authority init --yes",
  "authority plan",
  "authority rotate --yes",
  "authority request",
  "authority export --out @backup.age",
  "root list",
  "deny list",
  "certificate revoked",
  "kek list",
  "cluster check",
];
const configurations = ["none", "dir", "bad", "type", "on-file", "open"];
/**
 * Every verb with one fault, and every fault with two verbs: they read a configuration in one place. What has another
 * name is wrangler's, which takes a second to load, and is in `session/deployment.test.ts`.
 */
const onConfigurations = new Set([
  ...verbs.map((verb) => `${verb} -c @type.toml`),
  ...["authority list", "cluster check"].flatMap((verb) =>
    configurations.map((name) => `${verb} -c @${name}.toml`),
  ),
]);

/** Arguments and options that name a wrong file, or hold a wrong text. */
const onFiles = [
  ...["import", "install", "restore"].flatMap((verb) =>
    ["@none", "@dir", "@bad.toml"].map((file) => `authority ${verb} ${file} -c @good.toml`),
  ),
  "authority restore @bad.toml -i @dir -c @good.toml",
  "authority export --out @none/x -c @good.toml",
  "authority export --out @dir -c @good.toml",
  "authority export --out @x -r nonsense -c @good.toml",
  "root add @dir -c @good.toml",
  "root add @bad.toml -c @good.toml",
  "certificate revoke @dir -c @good.toml",
  "certificate revoke @bad.toml -c @good.toml",
  "certificate revoke 00 --url nonsense -c @good.toml",
  "certificate revoke --node a --dir @file -c @good.toml",
  "cluster enrol --kubeconfig @dir",
  "cluster enrol --kubeconfig @bad.toml",
  "cluster enrol --discovery @bad.toml --jwks @bad.toml",
  "issuer enrol github --owner-id nonsense",
  "policy explain --token @none -c @good.toml",
  "policy explain --token @dir -c @good.toml",
  "deny add nonsense -c @good.toml",
  "log tail --url nonsense",
  "log tail --dir @file",
  "log tail --dir @dir --key nonsense",
  "log tail --dir @dir --policy @dir",
  "log tail --url http://127.0.0.1:1/log/0 --ca @bad.toml",
  "log verify @bad.toml --dir @dir",
  "log follow --dir @copy --authorities @bad.toml --url http://127.0.0.1:1/log/0",
  "log follow --dir @copy --config @bad.toml --url http://127.0.0.1:1/log/0",
  "serve -c @dir",
  "serve -c @on-file.toml",
  "gateway -c @bad.toml",
  "distribute -c @none",
  "signer -c @dir",
  "agent bootstrap --inbound nonsense",
  "init @file",
  "init --package @none @new",
  "kek new :",
  "completion tcsh",
];

test.each([...onConfigurations, ...onFiles])(
  "%s ends with a sentence, without a stack and in our words",
  async (words) => {
    const failure = await failureOf(words);
    if (failure instanceof CommanderError) return;
    expect(failure).toBeInstanceOf(OperatorError);
    const { message, exitCode } = failure as OperatorError;
    expect(message).not.toMatch(/Invalid input|expected .* received|^E[A-Z]+:|\bat .*:\d+:\d+/m);
    expect([exitCodes.failed, exitCodes.usage]).toContain(exitCode);
  },
);

test.each(["nonsense", ""])("a KEK %j is a fault of the configuration", async (kek) => {
  terminal.setVariable("KEK", kek);
  expect(await failureOf("authority list -c @good.toml")).toMatchObject({
    message: expect.stringMatching(/^KEK: /),
    exitCode: exitCodes.failed,
  });
});

test.each(["dir.toml", "on-file.toml", "bad.toml", "open.toml"])(
  "the doctor has findings about %s, and no failure",
  async (name) => {
    expect(await failureOf(`doctor --offline -c @${name}`)).toBeUndefined();
    expect(terminal.exitCode).toBe(exitCodes.broken);
  },
);
