// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Medians, quartiles, and confidence intervals. */
final class Figures {
    private static final int RESAMPLES = 2000;

    private Figures() {}

    static double median(List<Double> values) {
        return quantile(values, 0.5);
    }

    /** Linear interpolation between the two nearest values. */
    static double quantile(List<Double> values, double share) {
        if (values.isEmpty()) {
            return Double.NaN;
        }
        List<Double> sorted = new ArrayList<>(values);
        Collections.sort(sorted);
        double at = share * (sorted.size() - 1);
        int below = (int) at;
        int above = Math.min(below + 1, sorted.size() - 1);
        return sorted.get(below) + (at - below) * (sorted.get(above) - sorted.get(below));
    }

    /** The 95 % interval of the median, by the bootstrap, with a fixed seed. */
    static double[] interval(List<Double> values) {
        Random random = new Random(1);
        List<Double> medians = new ArrayList<>();
        for (int resample = 0; resample < RESAMPLES; resample++) {
            List<Double> drawn = new ArrayList<>();
            for (int i = 0; i < values.size(); i++) {
                drawn.add(values.get(random.nextInt(values.size())));
            }
            medians.add(median(drawn));
        }
        return new double[] {quantile(medians, 0.025), quantile(medians, 0.975)};
    }
}
