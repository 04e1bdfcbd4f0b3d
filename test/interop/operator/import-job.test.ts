import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { startKvApi } from "../../testkit/network/kv-api.ts";
import { createCa, type TestCa, writeFolder } from "../../testkit/pki/plugged-in.ts";
import { createOperatorFolder, rampart } from "../../testkit/programs/command-line.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const timeoutMilliseconds = 600_000;

interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly jobTemplate: {
      readonly spec: { readonly template: { readonly spec: { readonly containers: Container[] } } };
    };
  };
}

interface Container {
  readonly args: readonly string[];
}

/** The configuration and the command of the job that deploy/ has. */
async function importJob(): Promise<{ readonly toml: string; readonly args: readonly string[] }> {
  const file = new URL("../../../deploy/kustomize/base/import/import.yaml", import.meta.url);
  const manifests = parseAllDocuments(await readFile(file, "utf8")).map(
    (document) => document.toJS() as Manifest,
  );
  const [toml = ""] = manifests.flatMap(({ data }) => Object.values(data ?? {}));
  const [args = []] = manifests.flatMap(({ spec }) =>
    (spec?.jobTemplate.spec.template.spec.containers ?? []).map((container) => container.args),
  );
  return { toml, args };
}

const nextYear = (): Date => new Date(Date.now() + 700 * 86_400_000);

test(
  "the job of deploy/ imports what is new into the Worker's store, and ends with 1 where it cannot",
  async () => {
    const { toml, args } = await importJob();
    const folder = await createOperatorFolder(toml);
    onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
    const cacerts = await temporaryFolder();
    const words = args
      .join(" ")
      .replace("/etc/cacerts", cacerts)
      .replace("/etc/rampart/wrangler.toml", folder.config);
    expect(words).not.toContain("/etc/");
    const [, KEK = ""] =
      /KEK="(.*)"/.exec(await readFile(join(folder.path, ".dev.vars"), "utf8")) ?? [];
    await rm(join(folder.path, ".dev.vars"));
    const api = await startKvApi();
    const run = () => rampart(folder, words, { KEK, ...api.environment });

    const root = await createCa("O=company,CN=root");
    const plug = async (ca: TestCa) =>
      writeFolder(cacerts, {
        "ca-cert.pem": ca.pem,
        "ca-key.pem": ca.keyPem,
        "cert-chain.pem": ca.pem,
        "root-cert.pem": root.pem,
      });
    const intermediate = (name: string) =>
      createCa(`O=mesh,CN=${name}`, { issuer: root, notAfter: nextYear() });
    await plug(await intermediate("first"));
    expect(await run()).toMatchObject({ code: 0, stdout: expect.stringMatching(/signing/) });
    api.propagate();
    expect(await run()).toMatchObject({
      code: 0,
      stdout: "The store has this authority already.\n",
    });
    await plug({ ...(await intermediate("next")), keyPem: root.keyPem });
    expect(await run()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the cert does not match the key"),
    });
    expect([...api.written.keys()].filter((key) => key.startsWith("authorities/"))).toHaveLength(1);
  },
  timeoutMilliseconds,
);
