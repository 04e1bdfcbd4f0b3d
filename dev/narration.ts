/** One line of what the start is doing, or of what it shows. */
export function say(topic: string, text: string): void {
  console.log(`  ${topic.padEnd(14)}${text}`);
}
