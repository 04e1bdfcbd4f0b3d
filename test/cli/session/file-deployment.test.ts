import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { openDeployment } from "../../../src/cli/session/deployment.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { storeToml } from "../../testkit/programs/store-toml.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");
let folder: string;
let environment: NodeJS.ProcessEnv;

beforeEach(async () => {
  folder = await temporaryFolder();
  environment = { KEK: randomKek() };
});

async function open(...lines: readonly string[]) {
  const config = join(folder, "rampart.toml");
  await writeFile(config, storeToml(join(folder, "store"), ...lines));
  return openDeployment({ config }, environment, now);
}

describe("a verb on the files of `rampart serve`", () => {
  test("writes records that `serve` reads", async () => {
    const { store, place, configuration, close } = await open('TRUST_DOMAIN = "mesh.test"');
    expect(place).toBe(`files in ${join(folder, "store")}`);
    expect(configuration.trustDomain).toBe("mesh.test");
    const record = { kind: "taint", id: "ab".repeat(20), value: "{}" } as const;
    await store.put(record);
    expect(await (await open()).store.load()).toEqual([record]);
    await close();
  });

  test.each<[string, string[], RegExp]>([
    ["a key that nobody knows", ["LISTENER = 1"], /LISTENER: is not a key/],
    ["a secret in the file", ['KEK = "x"'], /KEK: is a secret/],
    ["no TOML", ["="], /is not TOML/],
  ])("is stopped by %s", async (_, lines, sentence) => {
    await expect(open(...lines)).rejects.toThrow(OperatorError);
    await expect(open(...lines)).rejects.toThrow(sentence);
  });

  test("is stopped by the lack of a KEK", async () => {
    Reflect.deleteProperty(environment, "KEK");
    await expect(open()).rejects.toThrow(/KEK: is required/);
  });
});
