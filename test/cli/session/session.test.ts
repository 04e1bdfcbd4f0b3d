import { expect, test } from "vitest";
import { typedCommand } from "../../../src/cli/session/session.ts";

test.each([
  [{}, "rampart authority plan"],
  [{ config: "ca/rampart.toml" }, "rampart authority plan --config ca/rampart.toml"],
  [{ config: "it's mine.toml" }, "rampart authority plan --config 'it'\\''s mine.toml'"],
  [{ env: "test", remote: true }, "rampart authority plan --env test --remote"],
  [{ signer: "mesh-b" }, "rampart authority plan --signer mesh-b"],
])("with %j it is %s", (choice, command) => {
  expect(typedCommand("authority plan", choice)).toBe(command);
});

test("no signer is named to a verb that looks at all of them", () => {
  expect(typedCommand("doctor", { signer: "mesh-b" })).toBe("rampart doctor");
});
