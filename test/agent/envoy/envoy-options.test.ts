import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  envoyOptions,
  immediateDrain,
  isEnvoy,
  withOptions,
} from "../../../src/agent/envoy/envoy-options.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const address = { DISCOVERY_ADDRESS: "istiod:15012", INSTANCE_IP: "10.0.0.7" };

test("adds pilot-agent's options where istiod does", async () => {
  expect(await envoyOptions(address, ["-c", "own.json"])).toEqual([
    ["--drain-strategy", "immediate"],
    ["--drain-time-s", "45"],
    ["--local-address-ip-version", "v4"],
    ["--file-flush-interval-msec", "1000"],
    ["--disable-hot-restart"],
    ["--allow-unknown-static-fields"],
    ["-l", "warning"],
    ["--component-log-level", "misc:error"],
  ]);
});

test("takes times from PROXY_CONFIG, and an override from its file, also where istiod does not configure Envoy", async () => {
  const override = join(await temporaryFolder(), "override.yaml");
  await writeFile(override, "admin: {}\n");
  const given = { PROXY_CONFIG: "{ drainDuration: 10s }", ISTIO_BOOTSTRAP_OVERRIDE: override };
  const options = await envoyOptions({ ...address, ...given }, ["--config-path=own.json"]);
  expect(options).toContainEqual(["--drain-time-s", "10"]);
  expect(options).toContainEqual(["--config-yaml", "admin: {}\n"]);
  expect(await envoyOptions({ ISTIO_BOOTSTRAP_OVERRIDE: override }, [])).toEqual([
    ["--drain-strategy", "immediate"],
    ["--config-yaml", "admin: {}\n"],
  ]);
});

test.each([
  [{ ISTIO_CPU_LIMIT: "2" }, [["--concurrency", "2"]]],
  [{ ISTIO_CPU_LIMIT: "2", PROXY_CONFIG: "concurrency: 4" }, [["--concurrency", "4"]]],
  [{ ISTIO_CPU_LIMIT: "2", PROXY_CONFIG: "concurrency: 0" }, []],
  [{ ISTIO_CPU_LIMIT: "" }, []],
])("with %o gives Envoy the threads %j", async (environment, expected) => {
  const options = await envoyOptions({ ...address, ...environment }, ["-c", "own.json"]);
  expect(options.filter(([name]) => name === "--concurrency")).toEqual(expected);
});

test("writes the bootstrap for an Envoy that has no configuration", async () => {
  const configPath = join(await temporaryFolder(), "proxy");
  const PROXY_CONFIG = JSON.stringify({ configPath });
  const [first] = await envoyOptions({ ...address, PROXY_CONFIG }, ["--concurrency", "1"]);
  expect(first).toEqual(["-c", join(configPath, "envoy-rev.json")]);
  const bootstrap = JSON.parse(await readFile(join(configPath, "envoy-rev.json"), "utf8"));
  expect(bootstrap.node.id).toMatch(/^sidecar~10\.0\.0\.7~/);
});

test("refuses an override that is not there", async () => {
  const ISTIO_BOOTSTRAP_OVERRIDE = "/nowhere/override.json";
  const refused = envoyOptions({ ...address, ISTIO_BOOTSTRAP_OVERRIDE }, ["-c", "own.json"]);
  await expect(refused).rejects.toThrow(OperatorError);
});

const argumentsOf = (command: string, ...given: string[]): readonly string[] =>
  withOptions({ command, arguments: given }, [immediateDrain]).arguments;

const drains = ["--drain-strategy", "immediate"];

test.each([
  ["/usr/local/bin/envoy", ["-c", "envoy.json"], drains],
  ["envoy", ["--drain-strategy", "gradual"], []],
  ["envoy", ["--drain-strategy=gradual"], []],
  ["/bin/sh", ["-c", "exec envoy"], []],
])(
  "to %s %j it adds %j: each connection is to close as soon as Envoy drains",
  (command, given, added) => {
    expect(argumentsOf(command, ...given)).toEqual([...given, ...added]);
  },
);

test.each([[["-l", "debug"]], [["--log-level", "debug"]], [["--log-level=debug"]]])(
  "knows %o by both names",
  (given) => {
    const { arguments: got } = withOptions({ command: "envoy", arguments: given }, [
      ["-l", "warning"],
      ["--disable-hot-restart"],
    ]);
    expect(got).toEqual([...given, "--disable-hot-restart"]);
  },
);

test.each([
  ["envoy", true],
  ["/opt/envoy-1.40.0", true],
  ["./envoy.sh", false],
  ["/opt/envoy/start", false],
  ["sh", false],
  ["my-envoy", false],
])("takes %s for Envoy: %s", (command, expected) => {
  expect(isEnvoy(command)).toBe(expected);
});
