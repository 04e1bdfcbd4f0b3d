/** What keeps a verb from its work, in words for whoever typed it. Anything else thrown is a defect. */
export class Obstacle extends Error {
  override readonly name = "Obstacle";
}
