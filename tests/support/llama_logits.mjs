// Prints the logarithms of llama.cpp's probabilities after each token, a row of JSON per token:
// node llama_logits.mjs FOLDER-OF-node_modules MODEL.gguf TOKEN...
import path from "node:path";
import {pathToFileURL} from "node:url";

const [folder, file, ...tokens] = process.argv.slice(2);
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(path.join(folder, "node_modules/node-llama-cpp/dist/index.js")).href);
const llama = await getLlama({build: "never", gpu: false, logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({contextSize: 256, flashAttention: false});
const options = {temperature: 1, topK: 0, topP: 1, minP: 0};
const steps = await context.getSequence().controlledEvaluate(
    tokens.map((t) => [Number(t), {generateNext: {probabilities: true, options}}]));
const rows = steps.map((step) => {
    const row = new Array(step.next.probabilities.size);
    for (const [token, p] of step.next.probabilities) row[token] = Math.log(p);
    return JSON.stringify(row);
});
process.stdout.write(rows.join("\n") + "\n", () => process.exit(0));
