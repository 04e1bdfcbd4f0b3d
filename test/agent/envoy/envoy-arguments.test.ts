import { expect, test } from "vitest";
import { immediateDrain, isEnvoy, withOptions } from "../../../src/agent/envoy/envoy-options.ts";

const argumentsOf = (command: string, ...given: string[]): readonly string[] =>
  withOptions({ command, arguments: given }, [immediateDrain]).arguments;

test("has Envoy tell every connection to close as soon as it drains", () => {
  expect(argumentsOf("/usr/local/bin/envoy", "-c", "envoy.json")).toEqual([
    "-c",
    "envoy.json",
    "--drain-strategy",
    "immediate",
  ]);
});

test.each([["--drain-strategy", "gradual"], ["--drain-strategy=gradual"]])(
  "leaves the operator's %s",
  (...given) => {
    expect(argumentsOf("envoy", ...given)).toEqual(given);
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

test("leaves the arguments of other programs", () => {
  expect(argumentsOf("/bin/sh", "-c", "exec envoy")).toEqual(["-c", "exec envoy"]);
});

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
