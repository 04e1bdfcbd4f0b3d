import { expect, test } from "vitest";
import { unsupportedVariables } from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const [refused, ignored] = [unsupportedVariables.refused, unsupportedVariables.ignored].map(
  Object.keys,
);

test.each(refused ?? [])("refuses %s by name, with a reason", (name) => {
  expect(() => parseConfiguration({ ...pod, [name]: "true" })).toThrow(
    new RegExp(`^${name}: .{20}`),
  );
});

test.each(ignored ?? [])("ignores %s, and has a warning with a reason", (name) => {
  const { ignoredVariables } = parseConfiguration({ ...pod, [name]: "true" });
  expect(ignoredVariables).toEqual([{ name, why: expect.stringMatching(/.{20}/) }]);
});

test.each(["", "false", "F", "0", "{}"])(
  "has no warning for a variable with the value %j",
  (value) => {
    const idle = Object.fromEntries(
      [...(refused ?? []), ...(ignored ?? [])].map((name) => [name, value]),
    );
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

test("names what begins like a variable of the agent and is none, beside those of a Service", () => {
  const { ignoredVariables } = parseConfiguration({
    ...pod,
    RAMPART_CACHE_KEY: "AAAA",
    RAMPART_LINGER: "1s",
    RAMPART_PASSPHRASE: "a",
    RAMPART_SERVICE_HOST: "10.0.0.1",
    RAMPART_SERVICE_PORT_GRPC_TLS: "15012",
    RAMPART_GATEWAY_PORT_15012_TCP_ADDR: "10.0.0.1",
    RAMPART_PORT: "tcp://10.0.0.1:15012",
  });
  expect(ignoredVariables.map(({ name }) => name)).toEqual(["RAMPART_CACHE_KEY"]);
});
