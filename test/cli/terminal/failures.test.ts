import { expect, test } from "vitest";
import { failuresOf } from "../../../src/cli/terminal/failures.ts";

test("a failed clean-up hides neither the error before it nor that of another clean-up", async () => {
  const work = async (): Promise<void> => {
    await using stack = new AsyncDisposableStack();
    for (const name of ["third", "second"]) {
      stack.defer(() => {
        throw new Error(name);
      });
    }
    throw new Error("first");
  };
  const thrown = await work().catch((error: unknown) => error);
  expect(failuresOf(thrown)).toEqual(["first", "second", "third"].map((name) => new Error(name)));
});

test("any other error is thrown as it is", () => {
  const error = new Error("alone", { cause: new Error("cause") });
  expect(failuresOf(error)).toEqual([error]);
  expect(failuresOf("text")).toEqual(["text"]);
  expect(failuresOf(undefined)).toEqual([undefined]);
});
