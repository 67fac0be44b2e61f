#include "tests/bench/speculation/tasks.h"

namespace twostroke {
namespace {

constexpr EditingTask kTasks[] = {
    {"repeat", "Repeat the following text word for word, without any comment.",
     "The lighthouse at the end of the pier was built in 1871 by a company of fishermen who had lost three boats in "
     "one "
     "winter. Its lamp burned whale oil for the first ten years, then paraffin, and since 1934 electricity. The keeper "
     "lived in two rooms below the gallery with his wife and a goat. Today the tower is a small museum. Visitors climb "
     "ninety-four steps to the gallery, from which they see the harbour, the salt marshes and, on clear days, the "
     "island of Marren."},
    {"replace", "Copy the following text, but replace the name Anna by the name Julia everywhere.",
     "Anna woke before the alarm. The kitchen was cold, so Anna lit the stove and put the kettle on it. Outside the "
     "first trams were running. Anna counted her money twice: enough for the ticket, not enough for lunch. She wrote a "
     "note to her brother, and because Anna never left without saying goodbye she knocked softly at his door. Nobody "
     "answered. Anna put on her coat, took the small suitcase and closed the door behind her without a sound."},
    {"correct", "Correct the spelling mistakes in the following text and leave everything else as it is.",
     "The meeting wil take place on Thursday at nine in the large confrence room. Please bring the figures of the last "
     "quarter and a short list of open questions. The first hour is reserved for the budget, which has to be aproved "
     "before the end of the month. After a short break we will talk about the new office, the move in September and "
     "who needs a parking space. If you cannot come, please send someone who can decide on your behalf."},
    {"rename", "In the following Python function rename the variable total to amount. Print the whole function.",
     "def invoice_total(items, discount, tax_rate):\n"
     "    total = 0\n"
     "    for item in items:\n"
     "        price = item.price * item.quantity\n"
     "        if item.quantity > 10:\n"
     "            price = price * (1 - discount)\n"
     "        total = total + price\n"
     "    if total < 0:\n"
     "        raise ValueError(\"the total must not be negative\")\n"
     "    total = total * (1 + tax_rate)\n"
     "    return round(total, 2)\n"},
    {"json", "Add the field \"country\": \"Norway\" to each object of this JSON and print the whole JSON.",
     "[\n"
     "  {\"id\": 101, \"name\": \"Harbour Street\", \"city\": \"Bergen\", \"rooms\": 3, \"price\": 2450000},\n"
     "  {\"id\": 102, \"name\": \"Mill Lane\", \"city\": \"Trondheim\", \"rooms\": 2, \"price\": 1980000},\n"
     "  {\"id\": 103, \"name\": \"Station Road\", \"city\": \"Oslo\", \"rooms\": 4, \"price\": 4320000},\n"
     "  {\"id\": 104, \"name\": \"Church Square\", \"city\": \"Stavanger\", \"rooms\": 3, \"price\": 2875000}\n"
     "]"},
    {"quote", "Summarise the following text by quoting its three most important sentences.",
     "Bees find their way back to the hive by the position of the sun. A bee that has found flowers dances in front of "
     "the others, and the direction of the dance tells them where to fly. The longer the dance lasts, the further away "
     "the flowers are. On cloudy days bees see the polarisation of the light and need no sun. Old bees dance more "
     "precisely than young ones. Nobody knows how a bee learns to read the dance, since it is dark inside the hive and "
     "the dancer can only be felt. Experiments with robot bees have shown that the movement alone is enough."},
    {"number", "Write the following list again with a number in front of every line.",
     "Preheat the oven to two hundred degrees.\n"
     "Mix the flour, the salt and the dry yeast in a large bowl.\n"
     "Add the warm water and the olive oil and knead for ten minutes.\n"
     "Cover the bowl with a cloth and let the dough rest for one hour.\n"
     "Divide the dough into four pieces and roll each piece into a ball.\n"
     "Flatten the balls with your hands and put them on the baking sheet.\n"
     "Brush them with olive oil and sprinkle them with sea salt and rosemary.\n"
     "Bake them for fifteen minutes until they are golden brown."},
    {"formal", "Write the following letter again, a little more formally, with as few changes as possible.",
     "Hi Mr Brown, thank you for sending the documents so quickly. I have read the contract and I have two questions. "
     "First, the contract says that the rent is due on the first day of the month, but we agreed on the fifth. Second, "
     "I could not find the paragraph about the garden, which we want to use together with the neighbours. Could you "
     "please change the first point and tell me where I can find the second? I will sign the contract as soon as I "
     "have your answer. Thanks a lot and see you soon, Martin Keller"},
};

}  // namespace

std::span<const EditingTask> editing_tasks() { return kTasks; }

}  // namespace twostroke
