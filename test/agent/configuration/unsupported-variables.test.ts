import { expect, test } from "vitest";
import { parseConfiguration } from "../../../src/agent/configuration/configuration.ts";
import { unsupportedVariables } from "../../../src/agent/configuration/unsupported-variables.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const namesOf = (isIgnored: boolean): readonly string[] =>
  unsupportedVariables.filter((each) => each.isIgnored === isIgnored).map(({ name }) => name);

test.each(namesOf(false))("refuses %s by name, with a reason", (name) => {
  expect(() => parseConfiguration({ ...pod, [name]: "true" })).toThrow(
    new RegExp(`^${name}: .{20}`),
  );
});

test.each(namesOf(true))("ignores %s, and has a warning with a reason", (name) => {
  const { ignoredVariables } = parseConfiguration({ ...pod, [name]: "true" });
  expect(ignoredVariables).toEqual([
    { name, why: expect.stringMatching(/.{20}/), isIgnored: true },
  ]);
});

test.each(["", "false", "F", "0", "{}"])(
  "has no warning for a variable with the value %j",
  (value) => {
    const idle = Object.fromEntries(unsupportedVariables.map(({ name }) => [name, value]));
    expect(parseConfiguration({ ...pod, ...idle }).ignoredVariables).toEqual([]);
  },
);

test("takes pilot-agent's default name of the socket", () => {
  const { ignoredVariables } = parseConfiguration({
    ...pod,
    WORKLOAD_IDENTITY_SOCKET_FILE: "socket",
  });
  expect(ignoredVariables).toEqual([]);
});
