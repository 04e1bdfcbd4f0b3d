import { expect, test } from "vitest";
import { isEnvoy, withDrainStrategy } from "../../../src/agent/envoy/envoy-arguments.ts";

const argumentsOf = (command: string, ...given: string[]): readonly string[] =>
  withDrainStrategy({ command, arguments: given }).arguments;

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
