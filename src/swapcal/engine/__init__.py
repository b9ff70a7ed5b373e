"""The online engine: levels, learners and what they can prove."""
